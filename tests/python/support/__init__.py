"""What the tests are made of: models, pools, clusters of nodes, and PyTorch itself to compare with."""
