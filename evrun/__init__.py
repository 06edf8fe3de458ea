"""What we do about it: the acting side, which asks models, runs tools and spends money."""
