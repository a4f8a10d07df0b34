"""Running only what changes: the clean prefix once, K stacked conditions from the first perturbed block on."""
