"""What the comparisons with other packages share."""
