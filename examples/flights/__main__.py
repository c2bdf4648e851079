"""`./run demo`, or `python examples/flights`: runs the demo; Ctrl-C ends it cleanly even while it is still loading."""

import sys

try:
    from demo import main

    sys.exit(main())
except KeyboardInterrupt:
    print("stopped by Ctrl-C")
    sys.exit(130)
