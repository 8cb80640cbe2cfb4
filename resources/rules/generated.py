"""Generated kernels for what no rule covers: Graft finds groups of operators and makes one kernel of each.

    graft apply model.pt --rules resources/rules/generated.py --inputs in.pt -o model_fast.pt
"""

from graft import Recipe
from graft import eliminate_common, eliminate_dead, fold_constants, fuse, normalize, remove_dropout


class Generated(Recipe):
    """Any model. Run behind another recipe, it takes what that one leaves."""

    steps = [normalize, remove_dropout, fold_constants, eliminate_common, fuse(), eliminate_dead]
