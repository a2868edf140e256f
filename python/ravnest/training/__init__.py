"""What runs on a node: the node itself, the training loop, the data that it reads and the optimizer that it steps."""
