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

const transactionMembers = 3

// transactional moves records from one topic to another in transactions that hold the group's offsets too. Some are
// aborted on purpose, and a member vanishes in the middle of one, over and over.
type transactional struct {
	bootstrap, source, target, group string
	count                            int
	moved, aborted, vanished         atomic.Int64
	failure                          chan error
}

// transactions: whoever reads committed records finds each of the source's in the target once, and the group at its end.
func transactions(ctx context.Context, bootstrap string, arguments []string) error {
	if len(arguments) != 2 {
		return errors.New("transactions takes PREFIX RECORDS")
	}
	count, err := strconv.Atoi(arguments[1])
	if err != nil {
		return err
	}
	prefix := arguments[0]
	t := &transactional{
		bootstrap: bootstrap, source: prefix + "-source", target: prefix + "-target", group: prefix + "-group",
		count: count, failure: make(chan error, 64),
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.AlwaysRetryEOF())
	if err != nil {
		return err
	}
	defer client.Close()
	adm := kadm.NewClient(client)
	created, err := adm.CreateTopics(ctx, partitions, -1, nil, t.source, t.target)
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		return fmt.Errorf("creating topics: %w", err)
	}
	for n := range count {
		record := &kgo.Record{Topic: t.source, Key: []byte(strconv.Itoa(n % keys)), Value: []byte(strconv.Itoa(n))}
		client.Produce(ctx, record, func(_ *kgo.Record, err error) {
			if err != nil {
				t.failure <- err
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	if err := t.run(ctx); err != nil {
		return err
	}
	if err := t.check(ctx, adm); err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "moved %d aborted %d vanished %d\n", t.moved.Load(), t.aborted.Load(), t.vanished.Load())
	return nil
}

func (t *transactional) run(ctx context.Context) error {
	working, done := context.WithCancel(ctx)
	defer done()
	var all sync.WaitGroup
	for number := range transactionMembers {
		all.Go(func() {
			for life := 0; working.Err() == nil; life++ {
				if err := t.live(working, number, life); err != nil {
					t.failure <- fmt.Errorf("member %d: %w", number, err)
					return
				}
			}
		})
	}
	for t.moved.Load() < int64(t.count) {
		select {
		case err := <-t.failure:
			return err
		case <-ctx.Done():
			return fmt.Errorf("%d of %d records were moved in time", t.moved.Load(), t.count)
		case <-time.After(10 * time.Millisecond):
		}
	}
	done()
	all.Wait()
	return nil
}

// live is one life of a member: it ends with ctx, or after some transactions by vanishing in the middle of one.
func (t *transactional) live(ctx context.Context, number, life int) error {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(t.bootstrap, ",")...), kgo.AlwaysRetryEOF(), kgo.TransactionalID(t.group+"-"+strconv.Itoa(number)),
		kgo.ConsumerGroup(t.group), kgo.ConsumeTopics(t.source), kgo.DefaultProduceTopic(t.target),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
		kgo.HeartbeatInterval(100*time.Millisecond), kgo.SessionTimeout(sessionTimeout), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.FetchMaxPartitionBytes(4096),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	background := context.Background()
	for transaction := 1; ctx.Err() == nil; transaction++ {
		fetches := session.PollRecords(ctx, 150)
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		failed := kgo.AbortingFirstErrPromise(session.Client())
		for record := range fetches.RecordsAll() {
			session.Produce(background, &kgo.Record{Key: record.Key, Value: record.Value}, failed.Promise())
		}
		if failed.Err() == nil && life < 4 && transaction%7 == 6 {
			t.vanished.Add(1)
			return nil
		}
		commit := failed.Err() == nil && transaction%5 != 4
		committed, err := session.End(background, kgo.TransactionEndTry(commit))
		if isRefused(err) {
			// The next life aborts it.
			return nil
		}
		if err != nil {
			return err
		}
		if committed {
			t.moved.Add(int64(fetches.NumRecords()))
		} else {
			t.aborted.Add(1)
		}
	}
	return nil
}

func (t *transactional) check(ctx context.Context, adm *kadm.Client) error {
	if err := checkCommits(ctx, adm, t.group, t.source); err != nil {
		return err
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(t.bootstrap, ",")...), kgo.AlwaysRetryEOF(), kgo.ConsumeTopics(t.target), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	seen := make(map[string]bool, t.count)
	// A little longer than needed, for what comes once too often.
	for quiet := 0; len(seen) < t.count || quiet < 3; {
		short, enough := context.WithTimeout(ctx, 200*time.Millisecond)
		fetches := client.PollFetches(short)
		enough()
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d records can be read in time", len(seen), t.count)
		}
		for record := range fetches.RecordsAll() {
			if value := string(record.Value); seen[value] {
				return fmt.Errorf("record %q is there twice", value)
			} else {
				seen[value] = true
			}
		}
		if fetches.NumRecords() == 0 {
			quiet++
		}
	}
	return nil
}
