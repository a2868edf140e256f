"""tests/relay before the programs that a benchmark starts: what reaches them comes through a network of known speed."""

import re
import subprocess
from pathlib import Path

PROGRAM = Path(__file__).parents[1] / "build/release/tests/relay/relay"


class Relays:
    """One relay before each port, all with the options of the program that are given; `addresses` are theirs."""

    def __init__(self, ports: list[int], *options: str):
        self._processes = [
            subprocess.Popen([PROGRAM, "--to", f"127.0.0.1:{port}", *options], stdout=subprocess.PIPE, text=True)
            for port in ports
        ]
        self.addresses = [process.stdout.readline().split()[-1] for process in self._processes]

    def ports(self) -> list[int]:
        return [int(address.rpartition(":")[2]) for address in self.addresses]

    def close(self) -> int:
        """The bytes that came through, both ways, all relays together."""
        for process in self._processes:
            process.terminate()
        last = [process.communicate()[0] for process in self._processes]
        return sum(int(count) for line in last for count in re.findall(r"(\d+) bytes", line))

    def __enter__(self) -> "Relays":
        return self

    def __exit__(self, *_) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
