"""The one trigger behind all operators and sensors."""
