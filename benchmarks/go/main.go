// Command bench is franz-go at work, for the benchmarks: it prints what it measured as one line of JSON.
//
//	bench produce  -b HOST:PORT -t TOPIC -n RECORDS -s BYTES   as fast as it can, a callback per record, acks=all;
//	                                                           with -k the records have 1,000 different keys
//	bench latency  -b HOST:PORT -t TOPIC -n RECORDS -s BYTES   one record at a time, no linger, acks=all;
//	                                                           with -c so many clients at once, each one at a time
//	bench consume  -b HOST:PORT -t TOPIC -n RECORDS            reads every field of so many records
//
// With -ca FILE it speaks TLS, and trusts the authority in that PEM file.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type settings struct {
	bootstrap, topic string
	records, size    int
	clients          int
	keyed            bool
	security         []kgo.Opt
}

type result struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"`
	Records int     `json:"records"`
	Bytes   int     `json:"bytes"`
	P50     float64 `json:"p50,omitempty"`
	P99     float64 `json:"p99,omitempty"`
}

func main() {
	if len(os.Args) < 2 {
		fail(errors.New("usage: bench produce|latency|consume -b HOST:PORT -t TOPIC -n RECORDS [-s BYTES]"))
	}
	var s settings
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	flags.StringVar(&s.bootstrap, "b", "127.0.0.1:9092", "broker")
	flags.StringVar(&s.topic, "t", "bench", "topic")
	flags.IntVar(&s.records, "n", 1_000_000, "records")
	flags.IntVar(&s.size, "s", 100, "bytes of a value")
	flags.IntVar(&s.clients, "c", 1, "clients at once")
	flags.BoolVar(&s.keyed, "k", false, "keys of 10 bytes, within the size")
	authority := flags.String("ca", "", "PEM file of the authority, for TLS")
	_ = flags.Parse(os.Args[2:])
	if *authority != "" {
		s.security = []kgo.Opt{kgo.DialTLSConfig(trusting(*authority))}
	}
	run, known := map[string]func(settings) (result, error){"produce": produce, "latency": latency, "consume": consume}[os.Args[1]]
	if !known {
		fail(fmt.Errorf("there is no %q", os.Args[1]))
	}
	measured, err := run(s)
	if err != nil {
		fail(err)
	}
	_ = json.NewEncoder(os.Stdout).Encode(measured)
}

func trusting(authority string) *tls.Config {
	pem, err := os.ReadFile(authority)
	if err != nil {
		fail(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		fail(fmt.Errorf("%s has no certificate", authority))
	}
	return &tls.Config{RootCAs: roots}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

// The settings of franz-go's own benchmark, with its limits for what is buffered.
func producer(s settings, options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(s.bootstrap),
		kgo.DefaultProduceTopic(s.topic),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(1_000_000),
		kgo.MaxBufferedRecords(250<<20/s.size + 1),
	}, append(s.security, options...)...)...)
}

func produce(s settings) (result, error) {
	client, err := producer(s)
	if err != nil {
		return result{}, err
	}
	defer client.Close()
	ctx := context.Background()
	if err := client.ProduceSync(ctx, kgo.SliceRecord(make([]byte, s.size))).FirstErr(); err != nil {
		return result{}, err
	}
	value, keys := make([]byte, s.size), [][]byte{nil}
	if s.keyed {
		value, keys = value[:s.size-10], keys[:0]
		for number := range 1000 {
			keys = append(keys, []byte(fmt.Sprintf("key-%06d", number)))
		}
	}
	var failed atomic.Value
	var waiting sync.WaitGroup
	waiting.Add(s.records)
	started, before := time.Now(), cpu()
	for number := range s.records {
		client.Produce(ctx, kgo.KeySliceRecord(keys[number%len(keys)], value), func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(err)
			}
			waiting.Done()
		})
	}
	waiting.Wait()
	if err, bad := failed.Load().(error); bad {
		return result{}, err
	}
	return measured(started, before, s.records, s.records*s.size), nil
}

func latency(s settings) (result, error) {
	clients := make([]*kgo.Client, s.clients)
	for number := range clients {
		client, err := producer(s, kgo.ProducerLinger(0))
		if err != nil {
			return result{}, err
		}
		defer client.Close()
		clients[number] = client
	}
	if _, err := trips(clients, 200/s.clients+1, s.size); err != nil {
		return result{}, err
	}
	started, before := time.Now(), cpu()
	took, err := trips(clients, s.records/s.clients, s.size)
	if err != nil {
		return result{}, err
	}
	found := measured(started, before, len(took), len(took)*s.size)
	slices.Sort(took)
	found.P50, found.P99 = took[len(took)/2], took[len(took)*99/100]
	return found, nil
}

// The round trips in milliseconds of all clients, each of which sends its records one at a time.
func trips(clients []*kgo.Client, each, size int) ([]float64, error) {
	ctx, value := context.Background(), make([]byte, size)
	took, failures := make([][]float64, len(clients)), make([]error, len(clients))
	var waiting sync.WaitGroup
	for number, client := range clients {
		waiting.Add(1)
		go func() {
			defer waiting.Done()
			for range each {
				sent := time.Now()
				if err := client.ProduceSync(ctx, kgo.SliceRecord(value)).FirstErr(); err != nil {
					failures[number] = err
					return
				}
				took[number] = append(took[number], time.Since(sent).Seconds()*1e3)
			}
		}()
	}
	waiting.Wait()
	return slices.Concat(took...), errors.Join(failures...)
}

func consume(s settings) (result, error) {
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(s.bootstrap),
		kgo.ConsumeTopics(s.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxBytes(50 << 20),
		kgo.FetchMaxPartitionBytes(1 << 20),
	}, s.security...)...)
	if err != nil {
		return result{}, err
	}
	defer client.Close()
	seen, bytes, sum := 0, 0, int64(0)
	started, before := time.Now(), cpu()
	for seen < s.records {
		fetches := client.PollFetches(context.Background())
		if err := fetches.Err(); err != nil {
			return result{}, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			seen++
			bytes += len(r.Key) + len(r.Value) + len(r.Headers)
			sum += r.Offset + r.Timestamp.UnixMilli()
		})
	}
	if sum == 0 {
		return result{}, errors.New("no offset and no timestamp was read")
	}
	return measured(started, before, seen, bytes), nil
}

func measured(started time.Time, before float64, records, bytes int) result {
	return result{Seconds: time.Since(started).Seconds(), CPU: cpu() - before, Records: records, Bytes: bytes}
}

func cpu() float64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Utime.Sec+usage.Stime.Sec) + float64(usage.Utime.Usec+usage.Stime.Usec)/1e6
}
