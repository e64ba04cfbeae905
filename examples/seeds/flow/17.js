// Simple variable
"${userId}"  →  "user_custom_456"

// Nested object path
"${apiResponse.data.user.name}"  →  "John Doe"

// Array index with dot notation
"${results[0].id}"  →  "result_123"

// Complex path
"${apiResponse.data.items[2].metadata.createdAt}"  →  "2024-10-27"
