// Command interop is what the tests run to see franz-go at work against our broker: interop BOOTSTRAP WHAT [ARGUMENTS].
// It exits with 1, and says why on stderr, when anything is not as it must be.
package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

var commands = map[string]func(ctx context.Context, bootstrap string, arguments []string) error{
	"etl":          etl,
	"admin":        admin,
	"secured":      secured,
	"transactions": transactions,
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 150*time.Second)
	defer cancel()
	if len(os.Args) < 3 || commands[os.Args[2]] == nil {
		fmt.Fprintln(os.Stderr, "usage: interop BOOTSTRAP etl PREFIX BALANCER CODEC RECORDS | admin PREFIX | transactions PREFIX RECORDS | secured JSON")
		os.Exit(2)
	}
	if err := commands[os.Args[2]](ctx, os.Args[1], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
