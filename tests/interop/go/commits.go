package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// sessionTimeout is the shortest that brokers allow: who could not tell a coordinator that it leaves is waited for that
// long, and by the next coordinator once more.
const sessionTimeout = 6 * time.Second

// isRefused tells that a broker was not reached, so nothing was asked.
func isRefused(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial"
}

// again repeats a call until brokers that have just ended are back, or others in their place.
func again(ctx context.Context, call func() error) error {
	for {
		err := call()
		if !isRefused(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// checkCommits says where a group has not committed the end of a topic's partition.
func checkCommits(ctx context.Context, adm *kadm.Client, group, topic string) error {
	var committed kadm.OffsetResponses
	err := again(ctx, func() (err error) {
		if committed, err = adm.FetchOffsets(ctx, group); err == nil {
			err = committed.Error()
		}
		return err
	})
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
