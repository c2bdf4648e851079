"""The consumer: SubscriptionState, Fetcher and a coordinator for each group protocol, beside the MembershipCore."""
