"""Where scripts written for earlier versions find `clusterize`."""
