// Variables state:
{
  user: {
    id: "123",
    profile: {
      email: "user@example.com",
      tags: ["admin", "moderator"]
    }
  },
  responses: [
    { status: "success", data: "result1" },
    { status: "pending", data: "result2" }
  ]
}

// Path examples:
${user}                          // → {"id":"123","profile":{...}}
${user.id}                       // → "123"
${user.profile.email}            // → "user@example.com"
${user.profile.tags[0]}          // → "admin"
${responses[0].data}             // → "result1"
${responses[1].status}           // → "pending"
