"""The audit of Kafka: topics, brokers and clients."""
