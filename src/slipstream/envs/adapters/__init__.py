"""Worlds of ours in the clothes of other libraries, and environments of other libraries as worlds.

Each module imports its library when it is imported, and is imported when somebody asks for it.
"""
