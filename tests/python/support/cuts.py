"""Where a graph can be cut."""


def legal_cuts(graph) -> list[int]:
    return [cut["position"] for cut in graph.cuts() if cut["legal"]]


def spread(positions: list[int], count: int) -> list[int]:
    """`count` of the positions, evenly spread from the first to the last."""
    if len(positions) <= count:
        return positions
    return [positions[round(i * (len(positions) - 1) / (count - 1))] for i in range(count)]


def spread_cuts(graph, stages: int) -> list[int]:
    """Legal cuts that make so many stages, of about as many operators each."""
    legal = legal_cuts(graph)
    return [legal[round(i * (len(legal) - 1) / stages)] for i in range(1, stages)]
