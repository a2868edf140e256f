"""Where scripts written for earlier versions find `clusterize` and `model_fusion`."""
