"""What we stand beside in a benchmark run."""
