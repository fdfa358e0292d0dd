"""All words at once where every coordinate holds one value of the target."""
