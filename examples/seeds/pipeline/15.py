{
  "user": {},                 # User profile
  "memory": { ... },          # Persistent key-value memory
  "user_id": "user_123",      # User identifier
  "supabase": <Client>        # Direct Supabase access
}
