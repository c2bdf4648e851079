package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// administration is one walk through kadm; a step that fails ends it.
type administration struct {
	adm          *kadm.Client
	client       *kgo.Client
	topic, group string
	brokers      int
}

func admin(ctx context.Context, bootstrap string, arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("admin takes PREFIX")
	}
	seeds := strings.Split(bootstrap, ",")
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	a := &administration{kadm.NewClient(client), client, arguments[0] + "-topic", arguments[0] + "-group", len(seeds)}
	steps := []struct {
		name string
		run  func(context.Context) error
	}{
		{"cluster", a.cluster}, {"topics", a.topics}, {"configs", a.configs}, {"offsets", a.offsets},
		{"delete records", a.deleteRecords}, {"groups", a.groups}, {"log dirs", a.logDirs}, {"delete topics", a.deleteTopics},
	}
	for _, step := range steps {
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Fprintln(os.Stdout, step.name)
	}
	return nil
}

func expect(what string, got, want any) error {
	if got != want {
		return fmt.Errorf("%s is %v, not %v", what, got, want)
	}
	return nil
}

// eventually: a broker of several hears of a change a moment after the controller has answered.
func eventually(check func() error) error {
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := check()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (a *administration) cluster(ctx context.Context) error {
	meta, err := a.adm.BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	versions, err := a.adm.ApiVersions(ctx)
	if err != nil {
		return err
	}
	return errors.Join(
		expect("brokers", len(meta.Brokers), a.brokers), expect("a cluster id", meta.Cluster != "", true),
		expect("answers about versions", len(versions), a.brokers), versions.Sorted()[0].Err,
	)
}

func (a *administration) topics(ctx context.Context) error {
	retention := "3600000"
	created, err := a.adm.CreateTopic(ctx, 2, -1, map[string]*string{"retention.ms": &retention}, a.topic)
	if err != nil {
		return err
	}
	if _, err = a.adm.CreateTopic(ctx, 2, -1, nil, a.topic); !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("creating it again: %w", err)
	}
	if _, err = a.adm.CreateTopic(ctx, 2, 5, nil, a.topic+"-wide"); !errors.Is(err, kerr.InvalidReplicationFactor) {
		return fmt.Errorf("five replicas on fewer brokers: %w", err)
	}
	more, err := a.adm.CreatePartitions(ctx, 1, a.topic)
	if err == nil {
		err = more.Error()
	}
	if err != nil {
		return fmt.Errorf("one partition more: %w", err)
	}
	return eventually(func() error {
		listed, err := a.adm.ListTopics(ctx, a.topic)
		if err != nil {
			return err
		}
		return errors.Join(
			expect("partitions", len(listed[a.topic].Partitions), 3), expect("the topic id", listed[a.topic].ID, created.ID),
		)
	})
}

func (a *administration) configs(ctx context.Context) error {
	value := "7200000"
	altered, err := a.adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}, a.topic)
	if err != nil {
		return err
	}
	if _, err := altered.On(a.topic, func(r *kadm.AlterConfigsResponse) error { return r.Err }); err != nil {
		return err
	}
	err = eventually(func() error {
		described, err := a.adm.DescribeTopicConfigs(ctx, a.topic)
		if err != nil {
			return err
		}
		topic, err := described.On(a.topic, nil)
		if err != nil {
			return err
		}
		for _, config := range topic.Configs {
			if config.Key == "retention.ms" {
				return expect("retention.ms", config.MaybeValue(), value)
			}
		}
		return errors.New("there is no retention.ms")
	})
	if err != nil {
		return err
	}
	brokers, err := a.adm.DescribeBrokerConfigs(ctx)
	if err != nil {
		return err
	}
	return errors.Join(expect("descriptions", len(brokers), 1), brokers[0].Err)
}

func (a *administration) offsets(ctx context.Context) error {
	start := time.Now().Add(-time.Minute).Truncate(time.Millisecond)
	for n := range 10 {
		record := &kgo.Record{Topic: a.topic, Value: []byte("v"), Timestamp: start.Add(time.Duration(n) * time.Second)}
		if err := a.client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
	}
	first, err := a.adm.ListStartOffsets(ctx, a.topic)
	if err != nil {
		return err
	}
	last, err := a.adm.ListEndOffsets(ctx, a.topic)
	if err != nil {
		return err
	}
	committed, err := a.adm.ListCommittedOffsets(ctx, a.topic)
	if err != nil {
		return err
	}
	after, err := a.adm.ListOffsetsAfterMilli(ctx, start.UnixMilli()+4500, a.topic)
	if err != nil {
		return err
	}
	at := func(listed kadm.ListedOffsets) int64 { offset, _ := listed.Lookup(a.topic, 0); return offset.Offset }
	return errors.Join(
		first.Error(), last.Error(), committed.Error(), after.Error(),
		expect("the first offset", at(first), int64(0)), expect("the end", at(last), int64(10)),
		expect("the stable end", at(committed), int64(10)), expect("the offset by time", at(after), int64(5)),
	)
}

func (a *administration) deleteRecords(ctx context.Context) error {
	before := make(kadm.Offsets)
	before.Add(kadm.Offset{Topic: a.topic, Partition: 0, At: 4})
	deleted, err := a.adm.DeleteRecords(ctx, before)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		return err
	}
	first, err := a.adm.ListStartOffsets(ctx, a.topic)
	if err != nil {
		return err
	}
	offset, _ := first.Lookup(a.topic, 0)
	return expect("the first offset", offset.Offset, int64(4))
}

func (a *administration) groups(ctx context.Context) error {
	commits := make(kadm.Offsets)
	for partition := range int32(2) {
		commits.Add(kadm.Offset{Topic: a.topic, Partition: partition, At: 5 * int64(1-partition), LeaderEpoch: -1, Metadata: "m"})
	}
	if err := a.adm.CommitAllOffsets(ctx, a.group, commits); err != nil {
		return err
	}
	fetched, err := a.adm.FetchOffsets(ctx, a.group)
	if err == nil {
		err = fetched.Error()
	}
	if err != nil {
		return err
	}
	zero, _ := fetched.Lookup(a.topic, 0)
	lags, err := a.adm.Lag(ctx, a.group)
	if err != nil {
		return err
	}
	lag, _ := lags[a.group].Lag.Lookup(a.topic, 0)
	listed, err := a.adm.ListGroups(ctx)
	if err != nil {
		return err
	}
	set := make(kadm.TopicsSet)
	set.Add(a.topic, 1)
	gone, err := a.adm.DeleteOffsets(ctx, a.group, set)
	if err != nil {
		return err
	}
	left, err := a.adm.FetchOffsets(ctx, a.group)
	if err != nil {
		return err
	}
	_, there := left.Lookup(a.topic, 1)
	_, deleted := a.adm.DeleteGroup(ctx, a.group)
	_, again := a.adm.DeleteGroup(ctx, a.group)
	return errors.Join(
		expect("the offset", zero.At, int64(5)), expect("its metadata", zero.Metadata, "m"),
		expect("the lag", lag.Lag, int64(5)), expect("the state", listed[a.group].State, "Empty"), gone.Error(),
		expect("the deleted offset's presence", there, false), deleted,
		expect("deleting it again says so", errors.Is(again, kerr.GroupIDNotFound), true),
	)
}

func (a *administration) logDirs(ctx context.Context) error {
	described, err := a.adm.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return err
	}
	for _, directories := range described {
		if directory, found := directories.LookupPartition(a.topic, 0); found {
			return expect("size above 0", directory.Size > 0, true)
		}
	}
	return errors.New("the partition is in no directory")
}

func (a *administration) deleteTopics(ctx context.Context) error {
	if _, err := a.adm.DeleteTopic(ctx, a.topic); err != nil {
		return err
	}
	if _, err := a.adm.DeleteTopic(ctx, a.topic); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("deleting it again: %w", err)
	}
	return eventually(func() error {
		listed, err := a.adm.ListTopics(ctx)
		if err != nil {
			return err
		}
		return expect("the topic's presence", listed.Has(a.topic), false)
	})
}
