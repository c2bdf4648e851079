package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
)

// checkCommits says where a group has not committed the end of a topic's partition.
func checkCommits(ctx context.Context, adm *kadm.Client, group, topic string) error {
	committed, err := adm.FetchOffsets(ctx, group)
	if err == nil {
		err = committed.Error()
	}
	if err != nil {
		return fmt.Errorf("committed offsets: %w", err)
	}
	ends, err := endOffsets(ctx, adm, topic)
	if err != nil {
		return err
	}
	for partition, end := range ends {
		if found, _ := committed.Lookup(topic, partition); end != 0 && found.At != end {
			return fmt.Errorf("partition %d ends at %d, the group is at %d", partition, end, found.At)
		}
	}
	return nil
}
