"""What can be read from the states of words: probes of direction and magnitude, with controls."""

from polarlens.probing.alignment import AlignedTree, AlignedTrees, align_trees
from polarlens.probing.extraction import default_blocks
from polarlens.probing.probe import Probed, check_trees, probe
from polarlens.probing.probes import Probes
from polarlens.probing.representations import REPRESENTATIONS

__all__ = [
    "REPRESENTATIONS",
    "AlignedTree",
    "AlignedTrees",
    "Probed",
    "Probes",
    "align_trees",
    "check_trees",
    "default_blocks",
    "probe",
]
