// After API call, response stored in variables:
this.variables["apiResult"] = { /* API response */ }

// Available to next blocks via ${apiResult}
