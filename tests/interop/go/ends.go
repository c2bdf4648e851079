package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// endOffsets returns the end of each partition of a topic. A partition whose leader is not known at the moment has an
// error of its own, and no offset: it is asked for again.
func endOffsets(ctx context.Context, adm *kadm.Client, topic string) (map[int32]int64, error) {
	for {
		listed, err := adm.ListEndOffsets(ctx, topic)
		if err == nil {
			err = listed.Error()
		}
		if err == nil {
			ends := map[int32]int64{}
			for partition, end := range listed[topic] {
				ends[partition] = end.Offset
			}
			return ends, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("end offsets of %s: %w", topic, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
