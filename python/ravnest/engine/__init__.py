"""A captured model: loaded from its archive, called like the model, cut into stages."""
