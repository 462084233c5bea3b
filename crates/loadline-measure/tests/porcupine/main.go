// Reads a history of `loadline failover --history` from standard input, and prints the number of keys of each trial that are not
// linearizable, one trial a line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"os"

	"github.com/anishathalye/porcupine"
)

// event is a line of the history.
type event struct {
	Index   int64             `json:"index"`
	Trial   int               `json:"trial"`
	Process json.RawMessage   `json:"process"`
	Type    string            `json:"type"`
	F       string            `json:"f"`
	Value   []json.RawMessage `json:"value"`
}

// call is an operation on one key: a write of a register, an addition to a counter, or a read of either.
type call struct {
	function string
	value    int
}

// Both models start at 0. A key has only one of them.
var model = porcupine.Model{
	Init: func() interface{} { return 0 },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		called := input.(call)
		switch called.function {
		case "write":
			return true, called.value
		case "add":
			return true, state.(int) + called.value
		default:
			return output.(int) == state.(int), state
		}
	},
}

func main() {
	var trials []map[string][]porcupine.Operation
	under := map[string]event{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var now event
		if err := json.Unmarshal(lines.Bytes(), &now); err != nil {
			log.Fatal(err)
		}
		for len(trials) <= now.Trial {
			trials = append(trials, map[string][]porcupine.Operation{})
		}
		process := string(now.Process)
		if process == `"nemesis"` || now.F == "publish" || now.F == "receive" {
			continue
		}
		if now.Type == "invoke" {
			under[process] = now
			continue
		}
		begun := under[process]
		delete(under, process)
		var key string
		if err := json.Unmarshal(begun.Value[0], &key); err != nil {
			log.Fatal(err)
		}
		operation := porcupine.Operation{Input: call{now.F, number(begun)}, Call: begun.Index, Return: now.Index}
		switch now.Type {
		case "ok":
			operation.Output = number(now)
		case "info":
			// It can take effect at any time, or never.
			operation.Output = 0
			operation.Return = math.MaxInt64
		default:
			// It has no effect.
			continue
		}
		keys := trials[now.Trial]
		keys[key] = append(keys[key], operation)
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
	for _, keys := range trials {
		wrong := 0
		for _, operations := range keys {
			for client := range operations {
				// Operations of one key have no common client, so that one without an end does not hold up others.
				operations[client].ClientId = client
			}
			if !porcupine.CheckOperations(model, operations) {
				wrong++
			}
		}
		fmt.Println(wrong)
	}
}

// number is the second element of a value; 0 for null.
func number(one event) int {
	var read int
	if err := json.Unmarshal(one.Value[1], &read); err != nil {
		log.Fatal(err)
	}
	return read
}
