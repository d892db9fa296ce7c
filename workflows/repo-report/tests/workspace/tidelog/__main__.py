"""`python -m tidelog FOLDER`: a daily line for each gauge below the folder."""

import sys
from pathlib import Path

from tidelog.daily import lines
from tidelog.reading import heights


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: tidelog FOLDER", file=sys.stderr)
        return 2
    for gauge in sorted(path for path in Path(sys.argv[1]).iterdir() if path.is_dir()):
        for line in lines(gauge.name, heights(gauge)):
            print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
