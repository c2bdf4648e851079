"""The consumer: SubscriptionState, Fetcher, ConsumerNetworkClient, ConsumerCoordinator."""
