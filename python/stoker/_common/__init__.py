"""What the parts of the package share."""
