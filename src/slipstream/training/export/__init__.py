"""Policies for elsewhere: as ONNX, as a Python file that needs NumPy alone, as C, and as a folder to share."""
