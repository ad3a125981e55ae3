"""Read offsets, settings and consumer groups from Kafka, over one client per connection."""
