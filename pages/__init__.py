"""What is seen: Streamlit pages, and the figures and components that they share."""
