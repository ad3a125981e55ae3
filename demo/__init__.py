"""The story of the demo on the local stack: four upgrades under load, and the evidence that nobody could see them."""
