"""The live page: policies at play, and how training goes. It reads run directories, plays, and never trains."""
