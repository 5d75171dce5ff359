// Writes golden.txt: what the compiler of kube-scheduler says of every expression of expressions.txt on every device of devices().
//
// Run it in this folder, with the Kubernetes modules of the go.mod at hand:
//
//	go run . ../expressions.txt > ../golden.txt
//
// A line of golden.txt is the number of the expression's line, then "compile-error", or for each device "true", "false" or "error" with the
// runtime cost after a colon. Messages are left out: they are not part of any interface.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

func ptr[T any](v T) *T { return &v }

// devices must say the same as Devices() in golden_test.cc.
func devices() []dracel.Device {
	q := func(s string) resourceapi.DeviceCapacity {
		return resourceapi.DeviceCapacity{Value: resource.MustParse(s)}
	}
	type attrs = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
	type caps = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity
	return []dracel.Device{
		{
			Driver: "gpu.example.com",
			Attributes: attrs{
				"model":            {StringValue: ptr("A100")},
				"count":            {IntValue: ptr(int64(4))},
				"healthy":          {BoolValue: ptr(true)},
				"driverVersion":    {VersionValue: ptr("550.54.15")},
				"other.io/numa":    {IntValue: ptr(int64(1))},
				"other.io/name":    {StringValue: ptr("rack-a/node-1")},
				"modes":            {StringValues: []string{"fast", "slow"}},
				"ids":              {IntValues: []int64{3, 1, 2}},
				"gpu.example.com/uuid": {StringValue: ptr("GPU-18db0e85-99e9-c746-8531-ffeb86328b39")},
			},
			Capacity: caps{
				"memory":          q("80Gi"),
				"cores":           q("100"),
				"other.io/memory": q("1500m"),
			},
		},
		{
			Driver:                   "gpu.example.com",
			AllowMultipleAllocations: ptr(true),
			Attributes: attrs{
				"model":         {StringValue: ptr("H100-SXM")},
				"count":         {IntValue: ptr(int64(-8))},
				"healthy":       {BoolValue: ptr(false)},
				"driverVersion": {VersionValue: ptr("1.2.3-beta.2+build")},
				"other.io/numa": {StringValue: ptr("0")},
				"modes":         {StringValue: ptr("fast")},
			},
			Capacity: caps{"memory": q("40960Mi")},
		},
		{Driver: "empty.example.com"},
	}
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	defer file.Close()
	compiler := dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for line := 1; scanner.Scan(); line++ {
		text := scanner.Text()
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		text = strings.ReplaceAll(text, "␤", "\n")
		compiled := compiler.CompileCELExpression(text, dracel.Options{DisableCostEstimation: true})
		if compiled.Error != nil {
			fmt.Fprintf(out, "%d compile-error\n", line)
			if os.Getenv("VERBOSE") != "" {
				fmt.Fprintf(os.Stderr, "%d %s\n   %s\n", line, text, compiled.Error.Detail)
			}
			continue
		}
		fmt.Fprintf(out, "%d", line)
		for _, device := range devices() {
			match, details, err := compiled.DeviceMatches(context.Background(), device)
			answer := fmt.Sprint(match)
			if err != nil {
				answer = "error"
				if os.Getenv("VERBOSE") != "" {
					fmt.Fprintf(os.Stderr, "%d %s\n   %s\n", line, text, err)
				}
			}
			cost := int64(-1)
			if details != nil && details.ActualCost() != nil {
				cost = int64(*details.ActualCost())
			}
			fmt.Fprintf(out, " %s:%d", answer, cost)
		}
		fmt.Fprintln(out)
	}
}
