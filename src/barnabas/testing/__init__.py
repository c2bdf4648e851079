"""For test suites: fixtures, clients without a broker, faults on the way, and a simulator."""
