#include "api/yaml.h"
