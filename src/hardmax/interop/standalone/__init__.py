"""Files that run compiled models without hardmax: they are copied into folders as they stand."""
