package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	partitions = 7
	keys       = 101
)

// What a group's members use to share partitions; "server-side" is KIP-848, where the broker does it.
var balancers = map[string][]kgo.Opt{
	"range":              {kgo.Balancers(kgo.RangeBalancer())},
	"roundrobin":         {kgo.Balancers(kgo.RoundRobinBalancer())},
	"sticky":             {kgo.Balancers(kgo.StickyBalancer())},
	"cooperative-sticky": {kgo.Balancers(kgo.CooperativeStickyBalancer())},
	"server-side":        {kgo.ServerSideBalancer()},
}

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

// pipeline moves records from one topic to another by a group whose members come and go, while the records are produced.
type pipeline struct {
	bootstrap, source, target, group string
	balancer                         string
	codec                            kgo.CompressionCodec
	count                            int
	produced, moved                  atomic.Int64
	flushed                          atomic.Bool
	failure                          chan error
}

// etl: every record arrives in the target topic exactly once, in the order of its key, and the group has no lag.
func etl(ctx context.Context, bootstrap string, arguments []string) error {
	if len(arguments) != 4 || balancers[arguments[1]] == nil {
		return errors.New("etl takes PREFIX BALANCER CODEC RECORDS")
	}
	count, err := strconv.Atoi(arguments[3])
	if err != nil {
		return err
	}
	prefix := arguments[0]
	p := &pipeline{
		bootstrap: bootstrap, source: prefix + "-source", target: prefix + "-target", group: prefix + "-group",
		balancer: arguments[1], codec: codecs[arguments[2]], count: count, failure: make(chan error, 16),
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.AlwaysRetryEOF())
	if err != nil {
		return err
	}
	defer client.Close()
	adm := kadm.NewClient(client)
	created, err := adm.CreateTopics(ctx, partitions, -1, nil, p.source, p.target)
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		return fmt.Errorf("creating topics: %w", err)
	}
	if err := p.run(ctx); err != nil {
		return err
	}
	if err := p.checkTarget(ctx, adm); err != nil {
		return err
	}
	if err := checkCommits(ctx, adm, p.group, p.source); err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "moved %d records\n", p.produced.Load())
	return nil
}

// run has two members at first; a third comes, the first goes, a fourth comes, the second goes; each step waits until
// every member has moved records since the last one. The producer goes on for as long, and to p.count at least.
func (p *pipeline) run(ctx context.Context) error {
	producing, enough := context.WithCancel(ctx)
	defer enough()
	var all sync.WaitGroup
	all.Go(func() { p.produce(producing) })
	members := map[int]*member{}
	started := 0
	start := func() {
		living, stop := context.WithCancel(ctx)
		m := &member{stop: stop}
		members[started] = m
		started++
		all.Go(func() { p.work(living, m) })
	}
	stop := func(number int) {
		members[number].stop()
		delete(members, number)
	}
	start()
	start()
	steps := []func(){start, func() { stop(0) }, start, func() { stop(1) }, enough}
	for number, step := range steps {
		for _, m := range members {
			m.seen = m.moved.Load()
		}
		for _, m := range members {
			if err := p.wait(ctx, func() bool { return m.moved.Load() > m.seen }); err != nil {
				return fmt.Errorf("step %d: %w", number, err)
			}
		}
		step()
	}
	if err := p.wait(ctx, func() bool { return p.moved.Load() == p.produced.Load() && p.flushed.Load() }); err != nil {
		return err
	}
	for number := range members {
		stop(number)
	}
	all.Wait()
	select {
	case err := <-p.failure:
		return err
	default:
		return nil
	}
}

func (p *pipeline) wait(ctx context.Context, until func() bool) error {
	for !until() {
		select {
		case err := <-p.failure:
			return err
		case <-ctx.Done():
			return fmt.Errorf("of %d records %d came through in time", p.produced.Load(), p.moved.Load())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// produce goes on until ctx ends, a little at a time so that the group sees many fetches, and to p.count at least.
func (p *pipeline) produce(ctx context.Context) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(p.bootstrap, ",")...), kgo.AlwaysRetryEOF(), kgo.DefaultProduceTopic(p.source), kgo.ProducerBatchCompression(p.codec),
	)
	if err != nil {
		p.failure <- err
		return
	}
	defer client.Close()
	background := context.Background()
	for n := 0; n < p.count || ctx.Err() == nil; n++ {
		record := &kgo.Record{Key: []byte(strconv.Itoa(n % keys)), Value: []byte(strconv.Itoa(n))}
		client.Produce(background, record, func(_ *kgo.Record, err error) {
			if err != nil {
				p.failure <- fmt.Errorf("producing: %w", err)
			}
		})
		p.produced.Add(1)
		if n%500 == 499 {
			time.Sleep(20 * time.Millisecond)
		}
	}
	if err := client.Flush(background); err != nil {
		p.failure <- err
	}
	p.flushed.Store(true)
}

// member is one member of the group; `seen` is what it had moved at the start of a step.
type member struct {
	stop  context.CancelFunc
	moved atomic.Int64
	seen  int64
}

// work reads, writes and commits until ctx ends, then leaves the group.
func (p *pipeline) work(ctx context.Context, m *member) {
	background := context.Background()
	options := append([]kgo.Opt{
		kgo.SeedBrokers(strings.Split(p.bootstrap, ",")...), kgo.AlwaysRetryEOF(), kgo.ConsumerGroup(p.group), kgo.ConsumeTopics(p.source),
		kgo.DefaultProduceTopic(p.target), kgo.ProducerBatchCompression(p.codec), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), kgo.HeartbeatInterval(100 * time.Millisecond),
		kgo.SessionTimeout(sessionTimeout), kgo.FetchMaxWait(100 * time.Millisecond),
	}, balancers[p.balancer]...)
	client, err := kgo.NewClient(options...)
	if err != nil {
		p.failure <- err
		return
	}
	defer client.Close()
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, 500)
		for _, failed := range fetches.Errors() {
			// A coordinator that is gone is told, and the group is joined again.
			var lost *kgo.ErrGroupSession
			if !errors.Is(failed.Err, context.Canceled) && !errors.As(failed.Err, &lost) {
				p.failure <- fmt.Errorf("fetching %s-%d: %w", failed.Topic, failed.Partition, failed.Err)
			}
		}
		var copies []*kgo.Record
		for record := range fetches.RecordsAll() {
			copies = append(copies, &kgo.Record{Key: record.Key, Value: record.Value})
		}
		if err := client.ProduceSync(background, copies...).FirstErr(); err != nil {
			p.failure <- fmt.Errorf("writing to the target: %w", err)
		}
		if err := again(background, func() error { return client.CommitUncommittedOffsets(background) }); err != nil {
			p.failure <- fmt.Errorf("committing: %w", err)
		}
		m.moved.Add(int64(len(copies)))
		p.moved.Add(int64(len(copies)))
		client.AllowRebalance()
	}
}

func (p *pipeline) checkTarget(ctx context.Context, adm *kadm.Client) error {
	ends, err := endOffsets(ctx, adm, p.target)
	if err != nil {
		return err
	}
	total := int64(0)
	for _, end := range ends {
		total += end
	}
	if total != p.produced.Load() {
		return fmt.Errorf("%d records were produced, the target holds %d", p.produced.Load(), total)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(p.bootstrap, ",")...), kgo.AlwaysRetryEOF(), kgo.ConsumeTopics(p.target), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	seen := make(map[string]bool, p.count)
	last := make(map[string]int, keys)
	for int64(len(seen)) < p.produced.Load() {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for record := range fetches.RecordsAll() {
			key, value := string(record.Key), string(record.Value)
			number, err := strconv.Atoi(value)
			if err != nil || strconv.Itoa(number%keys) != key {
				return fmt.Errorf("record %q has key %q", value, key)
			}
			if before, found := last[key]; seen[value] || found && before >= number {
				return fmt.Errorf("record %q of key %q came after %d", value, key, before)
			}
			seen[value], last[key] = true, number
		}
	}
	return nil
}
