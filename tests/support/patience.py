"""How long tests wait for what is to happen: two minutes, as the machine may be many times slower than it should be.

What has happened is not waited for any longer, so this costs nothing where all is well. `./run checklist --verify`
breaks functions, and has less patience for what will never happen: it sets BARNABAS_PATIENCE.
"""

from __future__ import annotations

import os

PATIENCE = float(os.environ.get("BARNABAS_PATIENCE", "120"))
