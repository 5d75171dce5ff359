// Command gen writes the golden files of test/api: what Go's own libraries say about quantities and YAML scalars.
//
//	go run . quantities > ../quantities.txt
//	go run . yaml > ../yaml.txt
package main

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand"
	"os"
	"strings"

	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

var suffixes = []string{"", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}

var nasty = []string{
	"0", "00", "-0", "+0", "0.0", ".", "+", "-", "", " ", "1 ", " 1", "1.", ".5", "-.5", "1..2", "1.2.3", "--1", "+-1", "0x10", "1_000",
	"1e", "1E", "1E0", "1e0", "1e3", "1E3", "1e+3", "1e-3", "1E-9", "1e-10", "1e-100", "1e18", "1e19", "1e20", "5e-1", "1.5e3", "1e1", "1e2",
	"e5", "E", "m", "Ki", "k", "i", "1i", "1K", "1ki", "1mi", "1Zi", "1Ee", "1eE5", "1Ki5", "1m5", "1e5m", "1e5Ki", "1e99999999999999999999",
	"9223372036854775807", "9223372036854775808", "-9223372036854775807", "-9223372036854775808", "-9223372036854775809", "9223372036854775806.5",
	"9223372036854775807m", "9223372036854775808m", "9223372036854775807n", "9223372036854776", "9223372036854775.807", "9223372036854775.808",
	"100000000000000000000", "-100000000000000000000", "100Ei", "8Ei", "7.9999999999999999999Ei", "-100Ei", "10000000000000000", "1500m",
	"1000E", "999E", "1E", "10E", "100E", "9E", "9.3E", "1023", "1024", "1023Ki", "1024Ki", "1025Ki", "0.5Ki", "0.0001Ki", "1.5Gi", "0.1Gi", "1.1Mi", "0.9Ki",
	"0.001", "0.0001", "0.0000000001", "-0.0000000001", "0.1n", "1.1n", "0.0000001m", "1234567.891", "12.345678901234567890123456789", "0.5G", "500M",
	"1.000", "1.500", "1.500k", "1.234k", "0.000k", "000123", "-000123m", "+5Gi", "123456789012345678", "1234567890123456789", "0.123456789", "0.1234567891",
	"\x00", "1\x00", "1\n", "é", "1é", "١", "Inf", "NaN", "inf", "0Ki", "0e5", "0.0Gi", "-0Ki",
}

func exact(d *inf.Dec, scale inf.Scale) string {
	out := new(inf.Dec).Round(d, scale, inf.RoundUp) // away from zero
	return out.UnscaledBig().String()
}

func quantities() {
	random := rand.New(rand.NewSource(20261130))
	seen := map[string]bool{}
	var texts []string
	add := func(text string) {
		if !seen[text] {
			seen[text] = true
			texts = append(texts, text)
		}
	}
	for _, text := range nasty {
		add(text)
	}
	digits := func(most int) string {
		n := random.Intn(most + 1)
		out := make([]byte, n)
		for i := range out {
			out[i] = byte('0' + random.Intn(10))
			if random.Intn(3) == 0 {
				out[i] = '0'
			}
		}
		return string(out)
	}
	for len(texts) < 4000 {
		text := []string{"", "", "", "-", "+"}[random.Intn(5)] + digits([]int{1, 3, 6, 19, 24}[random.Intn(5)])
		if random.Intn(2) == 0 {
			text += "." + digits([]int{1, 3, 9, 12, 25}[random.Intn(5)])
		}
		switch random.Intn(5) {
		case 0:
			text += []string{"e", "E"}[random.Intn(2)] + []string{"", "-", "+"}[random.Intn(3)] + fmt.Sprint(random.Intn(24))
		case 1:
			if random.Intn(4) == 0 {
				text += []string{"K", "x", "eE", "mi", "ee", "kk", "e-", "e+", "-", "+1", "i"}[random.Intn(11)]
			}
		default:
			text += suffixes[random.Intn(len(suffixes))]
		}
		add(text)
	}
	limit, _ := new(big.Int).SetString("100000000000000000000000000000", 10) // 10^29 units: beyond, ours saturates
	for _, text := range texts {
		quoted, _ := json.Marshal(text)
		q, err := resource.ParseQuantity(text)
		if err != nil {
			fmt.Printf("%s\terror\n", quoted)
			continue
		}
		d := q.DeepCopy()
		dec := d.AsDec()
		units := exact(dec, 0)
		if n, _ := new(big.Int).SetString(units, 10); n.CmpAbs(limit) > 0 {
			continue
		}
		// Go keeps the text it has read and prints "1.500" again; negating twice drops that memory.
		c := q.DeepCopy()
		c.Neg()
		c.Neg()
		canonical := c.String()
		if again, err := resource.ParseQuantity(canonical); err != nil || again.Cmp(q) != 0 {
			canonical = "?" // Go loses the suffix beyond E: 1000E prints as 1
		}
		fmt.Printf("%s\t%s\t%s\t%s\t%s\n", quoted, canonical, exact(dec, 9), units, exact(dec, 3))
	}
}

var scalars = []string{
	"yes", "Yes", "YES", "yEs", "y", "Y", "n", "N", "no", "No", "on", "On", "off", "OFF", "true", "True", "TRUE", "tRue", "false", "~", "null", "Null", "NULL", "nULL", "",
	"0", "7", "-7", "+7", "0644", "0o17", "0O17", "0x1F", "0X1f", "0b101", "-0b101", "+0b1", "08", "09.5", "00", "-0", "-0x1f", "+0x1f", "1_000", "1__0", "_1", "1_", "0_7", "0x_1f", "0x", "0o", "0b", "0b2", "0o8",
	"12:30", "1:2:3", "190:20:30", "2001-01-01", "2001-01-01T00:00:00Z", "2001-1-1", "2001-01-01 10:00:00", "20010101",
	".5", "-.5", "+.5", "5.", "5.0", "3.0", "1e3", "1E3", "1e+3", "1e-3", "-1.5e3", "1.5", "1e400", "-1e400", "1e-400", ".", "..", "-", "+", "1.2.3", "1e", "1e+", ".e5", ".5e", "0.1", "1_0.5", "1e1_0",
	"9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616", "-9223372036854775808", "-9223372036854775809", "100000000000000000000",
	".inf", "-.inf", "+.Inf", ".nan", ".NaN", "inf", "nan", "Infinity",
	"'yes'", "\"0644\"", "'~'", "\"\"", "''", "<<", "=", "!!str yes", "!!str 12", "!!int 12", "!!int 1.5", "!!float 12", "!!bool yes", "!!bool 1", "!!null ''", "!!null ~", "!foo bar", "! 12", "!!binary aGk=", "!!binary '?'",
	"500m", "1Gi", "1.5Gi", "0.5", "1k", "v1", "a b", "a:b", "é", "\"\\u00e9\\n\"", "|-\n  a\n  b", ">\n  a\n  b", "[1, yes, ~]", "{a: 1}", "[]", "{}", "[a, [b, {c: d}]]",
}

var documents = []string{
	"a: 1\na: 2\n", "y: 1\n", "yes: 1\nno: 2\n", "1: a\n1.5: b\n0x10: c\n~: d\n", "1: a\n1.5: b\n0x10: c\n", "true: a\n", "? [a]\n: b\n", "? {a: b}\n: c\n",
	"base: &b {a: 1, b: 2}\nx:\n  <<: *b\n  b: 3\n", "base: &b {a: 1, b: 2}\nx:\n  b: 3\n  <<: *b\n", "l: &l {a: 1}\nm: &m {a: 2, c: 3}\nx:\n  <<: [*l, *m]\n",
	"x:\n  <<: {a: 1}\n", "x:\n  <<: 1\n", "x:\n  <<: [1]\n", "a: &a [1, *a]\n", "a: *nope\n", "a: &x 1\nb: *x\nc: &x 2\nd: *x\n", "&k key: v\nother: *k\n", "&k key: v\n*k : w\n",
	"a: b: c\n", "a: [1\n", "a: 'x\n", "\ta: 1\n", "a: 1\n b: 2\n", "- 1\n- 2\n", "just text\n", "# only a comment\n", "", "---\n", "---\n...\n", "a: |\n  x\n   y\nb: >-\n  p\n  q\n",
	"a: !!str 1\nb: !!int '2'\n", "%YAML 1.1\n---\na: 1\n", "%YAML 2.0\n---\na: 1\n", "a: \"\\x41\\u0042\"\n", "{\"a\": [1, 2.5, true, null, \"x\"], \"b\": {}}\n", "a: {b: c, d}\n", "a: [b: c]\n",
	"apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\n  labels: {on: \"yes\", off: 'no'}\nspec:\n  containers:\n  - name: c\n    resources:\n      requests: {cpu: 1.5, memory: 1Gi, nvidia.com/gpu: 8}\n",
	"a: @b\n", "a: `b`\n", "a: %b\n", "a: b #c\n", "a: b#c\n", "a:\n- b\n- c\n", "? a\n: b\n", "? a\n", "a: \xff\n", "a: \"\xe9\"\n", "\xef\xbb\xbfa: 1\n", "a: \x01\n", "a: b\r\nc: d\r\n",
}

func yamls() {
	emit := func(text string) {
		quoted, _ := json.Marshal([]byte(text)) // base64: some are not UTF-8
		out, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			fmt.Printf("%s\terror\n", quoted)
			return
		}
		fmt.Printf("%s\t%s\n", quoted, out)
	}
	for _, text := range scalars {
		emit("v: " + text + "\n")
		if !strings.ContainsAny(text, "\n[{|>") {
			emit(text + ": v\n")
		}
	}
	for _, text := range documents {
		emit(text)
	}
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "quantities" {
		quantities()
		return
	}
	if len(os.Args) == 2 && os.Args[1] == "yaml" {
		yamls()
		return
	}
	fmt.Fprintln(os.Stderr, "usage: gen quantities|yaml")
	os.Exit(2)
}
