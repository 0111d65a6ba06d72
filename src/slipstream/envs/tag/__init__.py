"""The game of tag: WarpDrive's two benchmark worlds, without its limit on the number of agents."""
