"""A training loop of a user's."""

from ravnest import Trainer


class OwnLoop(Trainer):
    """Trains for its epochs, without validation."""

    def train(self):
        self.prelim_checks()
        for _ in range(self.epochs):
            for x, _ in self.train_loader:
                self.node.forward_compute(x)
            self.node.wait_for_backwards()
