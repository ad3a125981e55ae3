"""The page inside Airflow's UI: how each stream is, and whether it can be rolled back now. It only reads."""

from pathlib import Path

# The script of the page in Airflow's UI, built from `www/src` (`make page`).
BUNDLE = Path(__file__).parent / "www" / "dist" / "page.js"
