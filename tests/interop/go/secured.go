package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// What lets a client in, as tests/interop/test_secured_listeners.py writes it.
type login struct {
	Topic, CA, Key, Mechanism, User, Password, Token string
	IsToken                                          bool
}

// secured writes three records through a listener that wants TLS or SASL, and reads them back.
func secured(ctx context.Context, bootstrap string, arguments []string) error {
	var l login
	if err := json.Unmarshal([]byte(arguments[0]), &l); err != nil {
		return err
	}
	options, err := l.options()
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(append(options,
		kgo.SeedBrokers(bootstrap),
		kgo.DefaultProduceTopic(l.Topic),
		kgo.ConsumeTopics(l.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RequestRetries(2),
		kgo.RecordRetries(2),
	)...)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return fmt.Errorf("refused: %w", err)
	}
	for _, value := range []string{"one", "two", "three"} {
		if err := client.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr(); err != nil {
			return err
		}
	}
	seen := 0
	for seen < 3 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		seen += fetches.NumRecords()
	}
	if seen != 3 {
		return fmt.Errorf("%d records were read", seen)
	}
	return nil
}

func (l login) options() ([]kgo.Opt, error) {
	var options []kgo.Opt
	if l.CA != "" {
		pem, err := os.ReadFile(l.CA)
		if err != nil {
			return nil, err
		}
		config := &tls.Config{RootCAs: x509.NewCertPool()}
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("no certificate of an authority")
		}
		if l.Key != "" {
			pair, err := tls.LoadX509KeyPair(l.Key, l.Key)
			if err != nil {
				return nil, err
			}
			config.Certificates = []tls.Certificate{pair}
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	switch l.Mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: l.User, Pass: l.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: l.User, Pass: l.Password, IsToken: l.IsToken}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: l.User, Pass: l.Password, IsToken: l.IsToken}.AsSha512Mechanism()))
	case "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Auth{Token: l.Token}.AsMechanism()))
	}
	return options, nil
}
