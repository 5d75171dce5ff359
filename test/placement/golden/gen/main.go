// Command gen writes golden answers of the upstream allocator for random small worlds: one node, one pod with a claim or two.
//
//	go run . -n 400 -seed 1 > ../allocator.jsonl
//
// One JSON object a line: the objects as the API serves them, and what upstream answered: "yes" with devices, "no", or "error".
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

type classes map[string]*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	var out []*resourceapi.DeviceClass
	for _, class := range c {
		out = append(out, class)
	}
	return out, nil
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class, ok := c[name]; ok {
		return class, nil
	}
	return nil, fmt.Errorf("device class %s does not exist", name)
}

type device struct {
	Request string `json:"request"`
	Driver  string `json:"driver"`
	Pool    string `json:"pool"`
	Device  string `json:"device"`
}

type world struct {
	Node      *corev1.Node                 `json:"node"`
	Slices    []*resourceapi.ResourceSlice `json:"slices"`
	Classes   []*resourceapi.DeviceClass   `json:"classes"`
	Claims    []*resourceapi.ResourceClaim `json:"claims"`
	Allocated []device                     `json:"allocated"`
	Outcome   string                       `json:"outcome"`
	Error     string                       `json:"error,omitempty"`
	Devices   [][]device                   `json:"devices,omitempty"`
}

const driverA, driverB = "a.example.com", "b.example.com"

func ptr[T any](v T) *T { return &v }

func makeDevices(r *rand.Rand, driver string, counters bool, taints bool) []resourceapi.Device {
	var out []resourceapi.Device
	n := 1 + r.Intn(5)
	for i := 0; i < n; i++ {
		d := resourceapi.Device{Name: fmt.Sprintf("dev-%d", i)}
		d.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
		if r.Intn(6) > 0 {
			d.Attributes["numa"] = resourceapi.DeviceAttribute{IntValue: ptr(int64(r.Intn(3)))}
		}
		if r.Intn(8) > 0 {
			d.Attributes["model"] = resourceapi.DeviceAttribute{StringValue: ptr([]string{"x", "y"}[r.Intn(2)])}
		}
		if r.Intn(3) > 0 {
			d.Attributes["pci.example.com/root"] = resourceapi.DeviceAttribute{StringValue: ptr(fmt.Sprintf("root-%d", r.Intn(2)))}
		}
		if r.Intn(3) > 0 {
			d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
				"memory": {Value: resource.MustParse([]string{"20Gi", "40Gi", "80Gi"}[r.Intn(3)])},
			}
		}
		if counters && r.Intn(3) > 0 {
			d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{
				CounterSet: "set",
				Counters: map[string]resourceapi.Counter{
					"memory": {Value: resource.MustParse([]string{"1", "500m", "2"}[r.Intn(3)])},
				},
			}}
		}
		if taints && r.Intn(4) == 0 {
			d.Taints = []resourceapi.DeviceTaint{{Key: "k", Value: []string{"", "v"}[r.Intn(2)],
				Effect: []resourceapi.DeviceTaintEffect{"NoSchedule", "NoExecute", "None"}[r.Intn(3)]}}
		}
		out = append(out, d)
	}
	return out
}

func makeSlices(r *rand.Rand) []*resourceapi.ResourceSlice {
	var out []*resourceapi.ResourceSlice
	for _, driver := range []string{driverB, driverA} {
		for p := 0; p < 1+r.Intn(2); p++ {
			pool := fmt.Sprintf("pool-%d", p)
			counters := r.Intn(3) == 0
			taints := r.Intn(2) == 0
			generation := int64(1 + r.Intn(2))
			count := 1 + r.Intn(2)
			shown := count
			if r.Intn(20) == 0 {
				shown = count - 1
			}
			declared := int64(count)
			if counters {
				declared++
			}
			network := r.Intn(5) == 0
			place := func(s *resourceapi.ResourceSlice) {
				if network {
					s.Spec.AllNodes = ptr(true)
				} else {
					s.Spec.NodeName = ptr("node")
				}
			}
			used := 0
			for i := 0; i < shown; i++ {
				s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s-%d", driver, pool, 9-i)}}
				s.Spec.Driver = driver
				s.Spec.Pool = resourceapi.ResourcePool{Name: pool, Generation: generation, ResourceSliceCount: declared}
				place(s)
				s.Spec.Devices = makeDevices(r, driver, counters, taints)
				if r.Intn(30) > 0 {
					for d := range s.Spec.Devices {
						s.Spec.Devices[d].Name = fmt.Sprintf("dev-%d", used)
						used++
					}
				}
				out = append(out, s)
			}
			if counters {
				s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s-c", driver, pool)}}
				s.Spec.Driver = driver
				s.Spec.Pool = resourceapi.ResourcePool{Name: pool, Generation: generation, ResourceSliceCount: declared}
				place(s)
				s.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "set", Counters: map[string]resourceapi.Counter{
					"memory": {Value: resource.MustParse([]string{"1", "2", "3"}[r.Intn(3)])}}}}
				out = append(out, s)
			}
		}
	}
	return out
}

func selectors(texts ...string) []resourceapi.DeviceSelector {
	var out []resourceapi.DeviceSelector
	for _, text := range texts {
		out = append(out, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: text}})
	}
	return out
}

var requestSelectors = []string{
	`"numa" in device.attributes["a.example.com"] && device.attributes["a.example.com"].numa > 0`,
	`device.attributes["a.example.com"].?model.orValue("x") == "x"`,
	`device.attributes["b.example.com"].?model.orValue("y") == "y"`,
	`"memory" in device.capacity["a.example.com"] && device.capacity["a.example.com"].memory.compareTo(quantity("40Gi")) >= 0`,
	`device.driver.startsWith("b")`,
	`device.attributes["a.example.com"].numa == 1`,
}

func makeSub(r *rand.Rand, name string) resourceapi.DeviceSubRequest {
	s := resourceapi.DeviceSubRequest{Name: name, DeviceClassName: []string{"any", "a", "b"}[r.Intn(3)]}
	s.AllocationMode = resourceapi.DeviceAllocationModeExactCount
	s.Count = int64(1 + r.Intn(2)*r.Intn(2)*(1+r.Intn(2)))
	if r.Intn(14) == 0 {
		s.AllocationMode = resourceapi.DeviceAllocationModeAll
		s.Count = 0
	}
	if r.Intn(3) == 0 {
		s.Selectors = selectors(requestSelectors[r.Intn(len(requestSelectors)-r.Intn(2))])
	}
	if r.Intn(4) == 0 {
		s.Tolerations = []resourceapi.DeviceToleration{{Key: "k", Operator: resourceapi.DeviceTolerationOpExists}}
	}
	if r.Intn(8) == 0 {
		s.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("30Gi")}}
	}
	return s
}

func makeClaim(r *rand.Rand, name string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	var names []string
	for i := 0; i < 1+r.Intn(3)*r.Intn(2); i++ {
		request := resourceapi.DeviceRequest{Name: fmt.Sprintf("r%d", i)}
		names = append(names, request.Name)
		if r.Intn(4) == 0 {
			for j := 0; j < 1+r.Intn(3); j++ {
				request.FirstAvailable = append(request.FirstAvailable, makeSub(r, fmt.Sprintf("s%d", j)))
			}
		} else {
			s := makeSub(r, "")
			request.Exactly = &resourceapi.ExactDeviceRequest{DeviceClassName: s.DeviceClassName, Selectors: s.Selectors,
				AllocationMode: s.AllocationMode, Count: s.Count, Tolerations: s.Tolerations, Capacity: s.Capacity}
			if r.Intn(8) == 0 {
				request.Exactly.AdminAccess = ptr(true)
			}
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, request)
	}
	for r.Intn(3) == 0 && len(claim.Spec.Devices.Constraints) < 2 {
		attribute := resourceapi.FullyQualifiedName([]string{"a.example.com/numa", "pci.example.com/root", "b.example.com/model"}[r.Intn(3)])
		c := resourceapi.DeviceConstraint{}
		if r.Intn(3) == 0 {
			c.Requests = []string{names[r.Intn(len(names))]}
		}
		if r.Intn(2) == 0 {
			c.MatchAttribute = &attribute
		} else {
			c.DistinctAttribute = &attribute
		}
		claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, c)
	}
	return claim
}

func main() {
	n := flag.Int("n", 400, "worlds")
	seed := flag.Int64("seed", 1, "seed")
	flag.Parse()
	r := rand.New(rand.NewSource(*seed))
	ctx := context.Background()
	out := json.NewEncoder(os.Stdout)
	byName := classes{}
	var list []*resourceapi.DeviceClass
	for name, text := range map[string]string{"any": `true`, "a": `device.driver == "a.example.com"`, "b": `device.driver == "b.example.com"`} {
		class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		class.Spec.Selectors = selectors(text)
		byName[name] = class
	}
	for _, name := range []string{"a", "any", "b"} {
		list = append(list, byName[name])
	}
	features := structured.Features{AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true,
		DeviceBindingAndStatus: true, ConsumableCapacity: true, FractionalCapacityRange: true}
	for i := 0; i < *n; {
		w := world{Classes: list, Slices: makeSlices(r)}
		w.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{"zone": "z"}}}
		w.Node.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("8"), "pods": resource.MustParse("110")}
		for c := 0; c < 1+r.Intn(2); c++ {
			w.Claims = append(w.Claims, makeClaim(r, fmt.Sprintf("c%d", c)))
		}
		allocated := sets.New[structured.DeviceID]()
		counters := false
		admin := false
		for _, slice := range w.Slices {
			for _, d := range slice.Spec.Devices {
				counters = counters || len(d.ConsumesCounters) > 0
				if r.Intn(9) == 0 {
					id := structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, d.Name)
					if !allocated.Has(id) {
						allocated.Insert(id)
						w.Allocated = append(w.Allocated, device{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: d.Name})
					}
				}
			}
		}
		for _, claim := range w.Claims {
			for _, request := range claim.Spec.Devices.Requests {
				admin = admin || (request.Exactly != nil && request.Exactly.AdminAccess != nil)
			}
		}
		// Within one attempt upstream charges counters for devices that admin access only watches; Muster does not.
		if admin && counters {
			continue
		}
		state := structured.AllocatedState{AllocatedDevices: allocated,
			AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](), AggregatedCapacity: structured.ConsumedCapacityCollection{}}
		allocator, err := structured.NewAllocator(ctx, features, state, byName, w.Slices, cel.NewCache(100, cel.Features{EnableConsumableCapacity: true}))
		if err != nil {
			panic(err)
		}
		results, err := allocator.Allocate(ctx, w.Node, w.Claims)
		switch {
		case err != nil:
			w.Outcome = "error"
			w.Error = err.Error()
		case results == nil:
			w.Outcome = "no"
		default:
			w.Outcome = "yes"
			for _, result := range results {
				var devices []device
				for _, d := range result.Devices.Results {
					devices = append(devices, device{Request: d.Request, Driver: d.Driver, Pool: d.Pool, Device: d.Device})
				}
				w.Devices = append(w.Devices, devices)
			}
		}
		if err := out.Encode(w); err != nil {
			panic(err)
		}
		i++
	}
}
