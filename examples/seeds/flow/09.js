// Before execution:
url: "https://api.example.com/users?id=${userId}&limit=${pageSize}"

// After variable replacement (if userId="123", pageSize="50"):
url: "https://api.example.com/users?id=123&limit=50"
