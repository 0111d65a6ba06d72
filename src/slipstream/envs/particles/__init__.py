"""Known games of particles in the plane (Lowe et al. 2017), with the rules of PettingZoo's `mpe2`."""
