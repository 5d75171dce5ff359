#!/usr/bin/env python3
"""Writes builtin_wire.json: field numbers of the builtin kinds, for requests that arrive as protobuf.

usage: builtin_wire.py builtin_types.json MODULE_DIR... > builtin_wire.json

MODULE_DIR are k8s.io/api, k8s.io/apimachinery and k8s.io/apiextensions-apiserver: their generated.proto files are read.
An entry is {"number": ["jsonName", "type"]}; a type is string, int, bool, double, bytes, a message's name, [] before
what repeats, {} before the values of a map.
"""
import json
import os
import re
import sys

FIELD = re.compile(r"(optional|repeated|required)?\s*(map<\s*\w+\s*,\s*[\w.]+\s*>|[\w.]+)\s+(\w+)\s*=\s*(\d+);")
SCALARS = {"string": "string", "bytes": "bytes", "bool": "bool", "double": "double", "float": "double",
           "int32": "int", "int64": "int", "uint32": "int", "uint64": "int"}


def main():
    types = json.load(open(sys.argv[1]))
    messages = {}
    for root in sys.argv[2:]:
        for folder, _, files in os.walk(root):
            if "generated.proto" not in files:
                continue
            package, message = "", None
            for line in open(os.path.join(folder, "generated.proto")):
                line = line.split("//")[0].strip()
                if line.startswith("package "):
                    package = line[8:].rstrip(";").strip()
                elif line.startswith("message "):
                    message = package + "." + line.split()[1]
                    messages[message] = []
                elif line == "}":
                    message = None
                elif message:
                    match = FIELD.match(line)
                    if match:
                        label, kind, name, number = match.groups()
                        messages[message].append((number, name, kind, label == "repeated", package))

    def resolve(kind, package):
        if kind in SCALARS:
            return SCALARS[kind]
        name = kind.lstrip(".")
        return name if name in messages else package + "." + name

    out = {}
    todo = ["k8s.io.apimachinery.pkg.apis.meta.v1.DeleteOptions"]
    for name, schema in types.items():
        if "x-kubernetes-group-version-kind" in schema:
            todo.append(name.replace("io.k8s.", "k8s.io.", 1))
    while todo:
        name = todo.pop()
        if name in out or name not in messages:
            continue
        fields = {}
        for number, field, kind, repeated, package in messages[name]:
            entry = re.match(r"map<\s*\w+\s*,\s*([\w.]+)\s*>", kind)
            value = resolve(entry.group(1) if entry else kind, package)
            fields[number] = [field, ("{}" if entry else "[]" if repeated else "") + value]
            if value not in SCALARS.values():
                todo.append(value)
        out[name] = fields
    lines = [json.dumps(name) + ":" + json.dumps(out[name], separators=(",", ":")) for name in sorted(out)]
    print("{\n" + ",\n".join(lines) + "\n}")


main()
